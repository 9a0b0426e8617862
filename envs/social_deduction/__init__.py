"""Social Deduction: a crew, an imposter, meetings, votes."""
