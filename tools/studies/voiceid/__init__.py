"""The study of on-device voice authentication (arXiv 2205.14026) on any data: its four tables and its figure 4.

people ─ attack corpus ─ scores ─┬─ table I: attack success    ┐
       └ transformed speech ─────┼─ table II: fusion           │
             │                   ├─ figure 4: authentication   ├─ report.html
             └───────────────────┼─ table III: word error rate │
voiceid benchmark ───────────────┴─ table IV: cost             ┘
"""
