"""The one exception that means: the person asked for something that cannot be done."""


class UserError(Exception):
    """A request that cannot be carried out, with one line that says what to do.

    The command line prints the message without a traceback and exits with status 2.
    """
