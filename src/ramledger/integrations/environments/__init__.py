"""`ramledger check-env`: one environment alone, exercised and judged."""
