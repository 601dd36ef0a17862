"""For all tests: a shell that runs them in the background ignores Ctrl-C, and whatever they start would too."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
