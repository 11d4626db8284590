"""Fitted processes with other parameters, for comparison with references."""

from dataclasses import replace

from rankwise.comparisons.gp.terms import Drift, Tastes, Traits


def conditioned(gp, *, drift=None, tastes=None, traits=None, effects=None, **fields):
    """Condition a fitted process on its answers with other terms, or another likelihood.

    Parameters
    ----------
    gp : PreferenceGP
    drift : (q, time, usual time)
    tastes, traits : kernel
    effects : Effects
    fields
        Of the model.
    """
    model = gp.process_.model
    if drift is not None:
        names = ("drift", "drift_time", "usual_time")
        model = model.with_term(replace(model.term(Drift), **dict(zip(names, drift, strict=True))))
    if tastes is not None:
        model = model.with_term(replace(model.term(Tastes), kernel=tastes))
    if traits is not None:
        model = model.with_term(replace(model.term(Traits), kernel=traits))
    if effects is not None:
        model = model.with_term(effects)
    return gp._condition(replace(model, **fields).given(gp._recorded))


def inference_of(gp):
    """Return the inference of a fitted process on its answers."""
    return gp.process_.model.inference(gp._recorded)[0]
