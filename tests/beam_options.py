"""Beam's options for tests: in the process itself, and on two others."""

ONE = "runner=FnApiRunner"
TWO = f"{ONE},direct_running_mode=multi_processing,direct_num_workers=2"
