"""What several verbs share: their options, and the campaign, cells and hosts they select."""
