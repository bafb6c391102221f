"""What we advise, in force: `ramledger run --apply replay,workers -- COMMAND`. Opt-in always."""
