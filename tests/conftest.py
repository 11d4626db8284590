"""What all tests need."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start background jobs so, and children inherit it: tests of Ctrl-C would wait for ever
    signal.signal(signal.SIGINT, signal.default_int_handler)
