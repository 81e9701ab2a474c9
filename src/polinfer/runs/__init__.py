"""Run folders: configuration, checkpoints, results; a killed run resumes where it was."""
