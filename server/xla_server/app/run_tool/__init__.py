"""The console command xla-run."""
