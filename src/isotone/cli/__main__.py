"""``python -m isotone.cli`` is ``isotone``."""

from isotone.cli.main import main

if __name__ == "__main__":
    main()
