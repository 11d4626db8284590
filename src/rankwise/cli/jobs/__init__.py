"""What the commands do, one file each: ``run(command)``."""
