"""The judges (identity, spoofing, liveness, consistency), their fusion and the policy that decides."""
