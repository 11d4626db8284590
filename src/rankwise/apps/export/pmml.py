"""Write scoring functions as PMML 4.4, and score what was written."""

import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from rankwise import __version__
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.features.covariances import Scaled, SquaredExponential
from rankwise.features.kernels import Gaussian, Kernel, Polynomial
from rankwise.rankers.scoring_function import ScoringFunction

NAMESPACE = "http://www.dmg.org/PMML-4_4"
KernelElement: TypeAlias = tuple[str, dict[str, str], FloatArray, float]
"""Element, attributes, length-scales to divide rows by, and a factor of the weights."""


def write_pmml(function: ScoringFunction, name: str, names: Sequence[str]) -> str:
    """Return a RegressionModel, or a SupportVectorMachineModel for a kernel.

    Parameters
    ----------
    function : ScoringFunction
        With one output.
    name : str
        Of the model.
    names : sequence of str
        Of the features.
    """
    root = ET.Element("PMML", {"version": "4.4", "xmlns": NAMESPACE})
    header = ET.SubElement(root, "Header")
    ET.SubElement(header, "Application", {"name": "rankwise", "version": __version__})
    dictionary = ET.SubElement(root, "DataDictionary")
    for feature in [*names, "score"]:
        numeric = {"name": feature, "optype": "continuous", "dataType": "double"}
        ET.SubElement(dictionary, "DataField", numeric)
    write = _regression if function.kernel is None else _support_vector_machine
    write(root, function, name, names)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _regression(
    root: ET.Element, function: ScoringFunction, name: str, names: Sequence[str]
) -> None:
    """Fold scales into coefficients and shifts into the intercept."""
    model = _model(root, "RegressionModel", name, names)
    weights = function.weights / function.scale
    intercept = -float(weights @ function.shift) or 0.0
    table = ET.SubElement(model, "RegressionTable", {"intercept": repr(intercept)})
    for feature, weight in zip(names, weights.tolist(), strict=True):
        entry = {"name": feature, "coefficient": repr(weight)}
        ET.SubElement(table, "NumericPredictor", entry)


def _support_vector_machine(
    root: ET.Element, function: ScoringFunction, name: str, names: Sequence[str]
) -> None:
    """Write the kernel expansion; features are scaled by derived fields."""
    rows, kernel = function.rows, function.kernel
    assert rows is not None
    assert kernel is not None
    # length-scales and shifts become derived fields
    kind, options, lengths, factor = _kernel_element(kernel, function.n_features)
    model = _model(root, "SupportVectorMachineModel", name, names)
    shift, scale = function.shift, function.scale * lengths
    fields = list(names)
    if (shift != 0.0).any() or (scale != 1.0).any():
        fields = [f"{feature}.scaled" for feature in names]
        _derived_fields(model, names, fields, shift, scale)
    ET.SubElement(model, kind, options)
    # the stored rows as support vectors
    vectors = ET.SubElement(model, "VectorDictionary", {"numberOfVectors": str(len(rows))})
    listing = ET.SubElement(vectors, "VectorFields", {"numberOfFields": str(len(fields))})
    for field in fields:
        ET.SubElement(listing, "FieldRef", {"field": field})
    for at, row in enumerate(rows / lengths):
        instance = ET.SubElement(vectors, "VectorInstance", {"id": f"r{at}"})
        array = ET.SubElement(instance, "Array", {"type": "real", "n": str(len(row))})
        array.text = " ".join(map(repr, row.tolist()))
    machine = ET.SubElement(model, "SupportVectorMachine")
    support = {
        "numberOfSupportVectors": str(len(rows)),
        "numberOfAttributes": str(len(fields)),
    }
    used = ET.SubElement(machine, "SupportVectors", support)
    for at in range(len(rows)):
        ET.SubElement(used, "SupportVector", {"vectorId": f"r{at}"})
    # their weights as coefficients
    count = {"numberOfCoefficients": str(len(rows)), "absoluteValue": "0.0"}
    coefficients = ET.SubElement(machine, "Coefficients", count)
    for weight in (factor * function.weights).tolist():
        ET.SubElement(coefficients, "Coefficient", {"value": repr(weight)})


def _model(root: ET.Element, kind: str, name: str, names: Sequence[str]) -> ET.Element:
    attributes = {"functionName": "regression", "modelName": name}
    model = ET.SubElement(root, kind, attributes)
    schema = ET.SubElement(model, "MiningSchema")
    ET.SubElement(schema, "MiningField", {"name": "score", "usageType": "target"})
    for feature in names:
        ET.SubElement(schema, "MiningField", {"name": feature})
    return model


def _derived_fields(
    model: ET.Element,
    names: Sequence[str],
    fields: Sequence[str],
    shift: FloatArray,
    scale: FloatArray,
) -> None:
    transformations = ET.SubElement(model, "LocalTransformations")
    entries = zip(names, fields, shift.tolist(), scale.tolist(), strict=True)
    for feature, field, by, divisor in entries:
        numeric = {"name": field, "optype": "continuous", "dataType": "double"}
        derived = ET.SubElement(transformations, "DerivedField", numeric)
        quotient = ET.SubElement(derived, "Apply", {"function": "/"})
        difference = ET.SubElement(quotient, "Apply", {"function": "-"})
        ET.SubElement(difference, "FieldRef", {"field": feature})
        for parent, value in ((difference, by), (quotient, divisor)):
            constant = ET.SubElement(parent, "Constant", {"dataType": "double"})
            constant.text = repr(value)


def _kernel_element(kernel: Kernel, n_features: int) -> KernelElement:
    writer = _KERNELS.get(type(kernel))
    if writer is None:
        raise InvalidInputError(
            "PMML has linear, polynomial and Gaussian kernels only: got "
            f"{kernel!r}. Export to ONNX instead."
        )
    return writer(kernel, n_features)


def _gaussian(kernel: Any, n_features: int) -> KernelElement:
    options = {"gamma": repr(float(kernel.gamma))}
    return "RadialBasisKernelType", options, np.ones(n_features), 1.0


def _polynomial(kernel: Any, n_features: int) -> KernelElement:
    options = {
        "gamma": repr(float(kernel.gamma)),
        "coef0": repr(float(kernel.coef0)),
        "degree": repr(float(kernel.degree)),
    }
    return "PolynomialKernelType", options, np.ones(n_features), 1.0


def _covariance(kernel: Any, n_features: int) -> KernelElement:
    if kernel.item_effect > 0.0:
        raise InvalidInputError(
            "PMML cannot express an item effect, which holds for items equal to a training item: "
            f"got {kernel!r}. Export to ONNX instead."
        )
    lengths = np.broadcast_to(np.asarray(kernel.length_scale, dtype=float), (n_features,))
    return "RadialBasisKernelType", {"gamma": "0.5"}, lengths, kernel.amplitude**2


def _scaled(kernel: Any, n_features: int) -> KernelElement:
    if kernel.kernel.is_linear:
        return "LinearKernelType", {}, np.ones(n_features), kernel.amplitude**2
    kind, options, lengths, factor = _kernel_element(kernel.kernel, n_features)
    return kind, options, lengths, factor * kernel.amplitude**2


_KERNELS: dict[type, Callable[[Any, int], KernelElement]] = {
    Gaussian: _gaussian,
    Polynomial: _polynomial,
    SquaredExponential: _covariance,
    Scaled: _scaled,
}
