"""The errors that may leave an automaton or the codec, and nothing else."""


class IsotoneError(Exception):
    """Base of every error that Isotone raises on purpose."""


class LocalProtocolError(IsotoneError):
    """The caller misused an interface: a bad name, a send before a connect, a message over the limit."""


class RemoteProtocolError(IsotoneError):
    """A peer sent what no correct peer sends. The shell drops the input and counts it."""


class InputError(IsotoneError):
    """A file or an argument that the user gave cannot be used; commands end with exit code 2."""


class MachineError(IsotoneError):
    """The machine lacks something: a missing extra, a full disk, no permission; commands end with exit code 3."""
