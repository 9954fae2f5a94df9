"""What a configuration needs on a named slice of TPUs, without having one."""
