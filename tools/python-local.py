#!/usr/bin/env python3
"""Print where Debian's Python looks for modules below a prefix that ends in /local; nothing for any other
Python or prefix.

	python-local.py PREFIX
"""
import argparse
import os
import sysconfig

parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
parser.add_argument("prefix", metavar="PREFIX")
base, local = os.path.split(parser.parse_args().prefix.rstrip("/"))
if local == "local" and "posix_local" in sysconfig.get_scheme_names():
    print(sysconfig.get_path("purelib", "posix_local", vars={"base": base}))
