"""What the tools share: running a program that prints a report in JSON."""
import json
import subprocess
import sys

# A table is seen line by line, through a pipe as well: some take many minutes.
sys.stdout.reconfigure(line_buffering=True)


def report_of(argv):
    """The report that a program prints; when it fails, the end, with what it said."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(argv)}: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)
