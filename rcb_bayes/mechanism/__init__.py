"""The paper's mechanism, once: what planning, running and auditing share."""
