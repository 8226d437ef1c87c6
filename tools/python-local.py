#!/usr/bin/env python3
"""Print where Debian's Python looks for modules below a prefix that ends in /local; nothing for any other
Python or prefix.

	python-local.py PREFIX
"""
import os
import sys
import sysconfig

base, local = os.path.split(sys.argv[1].rstrip("/"))
if local == "local" and "posix_local" in sysconfig.get_scheme_names():
    print(sysconfig.get_path("purelib", "posix_local", vars={"base": base}))
