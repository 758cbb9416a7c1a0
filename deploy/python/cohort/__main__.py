"""`python3 -m cohort export CHECKPOINT --format keras --out model.keras`: what `cohort export` runs."""

from __future__ import annotations

import argparse
import os
import sys

USAGE, FAILED = 64, 65


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser("python3 -m cohort", description="Writes a trained model for other programs.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    exported = commands.add_parser("export", help="write a trained model for other programs", allow_abbrev=False)
    exported.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint, DIRECTORY of them, or DIRECTORY/best")
    exported.add_argument("--format", help="keras, weights_h5, safetensors, onnx, torch or saved_model; default: the ending of --out tells")
    exported.add_argument("--out", help="the file to write; default: model.keras, ...")
    exported.add_argument("--no_preprocessing", action="store_true", help="leave the transforms of columns out")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as error:
        return 0 if not error.code else USAGE
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from cohort import _export

    try:
        if options.format == "saved_model":
            text = _export.export_saved_model(options.checkpoint, options.out or "model", preprocessing=not options.no_preprocessing)
        else:
            text = _export.export(options.checkpoint, options.out, format=options.format, preprocessing=not options.no_preprocessing)
    except (TypeError, ImportError) as error:
        return _failed(error, USAGE)
    except (ValueError, RuntimeError, OSError) as error:
        return _failed(error, FAILED)
    print(text)
    return 0


def _failed(error: Exception, code: int) -> int:
    text = str(error)
    print(text if text.startswith("cohort: error: ") else f"cohort: error: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
