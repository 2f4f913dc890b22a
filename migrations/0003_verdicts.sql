-- What is known of a commit: the runs that were asked to repair it, and the one whose push made it.

CREATE INDEX jobs_head ON jobs (head);
-- The beginning of a result holds all of a pushed commit's; a refusal's words may be too long for an index.
CREATE INDEX authorizations_result ON authorizations (substr(result, 1, 120));
