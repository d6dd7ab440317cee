"""What training costs by the papers' own models."""
