"""Files: whole-file writes, and records of arrays as safetensors with JSON. No model."""
