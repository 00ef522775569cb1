"""``python -m voiceid``: the same as the command ``voiceid``."""

from voiceid.cli.start import main

if __name__ == "__main__":
    main()
