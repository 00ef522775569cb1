"""What the agent costs on this machine: time, memory and size of every stage."""
