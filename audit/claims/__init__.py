"""Claims about mechanisms, and the verdicts on them.

    check_file("claims.yaml")  # judges every claim of a file

A claim passes these places, from its file to its verdict:

1. `judge.check` judges all claims of some files within one error.
2. `claims_file.load` reads the files and those that they include,
3. as `claims_file.Part`: plain data with the lines of YAML, so that every complaint has its line.
4. `claims_file.read_mechanism` gives the mechanism: by name, by fields, or from another library;
5. `claim.statement_of` the statement: numbers, or a source that is asked for them;
6. `claim.Claim` holds both with a budget, a pair, samples and the expected verdict.
7. `judge.judge_all` shares laws, workers and the error (`equal_share`) between claims,
8. in the order of `judge.work_order`, in threads.
9. `sources.claimed_numbers` asks a bound of the catalogue, or user code in a worker.
10. `candidates.candidates_for` finds the pairs that may test the claim.
11. `evidence.collect` takes lower bounds until one refutes: laws, a search, samples.
12. `candidates.Candidates.bracket` computes the law of a pair, and its numbers at many places.
13. The judge compares the closest bound with the number, and with what a theorem proves.
14. `evidence.witness_of` writes a refutation as numbers,
15. with the cells that decide it (`partition.partition_of`).
16. `evidence.Judgement` is the verdict, and `judge.step_down` gives left error to others.
17. `judge.verify` asks ``audit-verify`` about the refutation.
18. `formats` writes the outcome, and `lock` compares it with what it was.

Samples that a user recorded take the place of 10 to 12 (`evidence`); a claim on a pair of a
user's own class goes from 9 to 16 in a worker (`judge.judged_by_worker`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
