"""What an instructor does: grade bundles again, sign certificates, see what a class found difficult."""
