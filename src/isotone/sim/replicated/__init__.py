"""The system ``replicated``: objects and their clients above COReL's servers, in virtual time."""
