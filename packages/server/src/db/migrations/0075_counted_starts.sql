-- Builds whose start the metric of durations has counted.
-- oldest program: 61
-- runs: in one transaction

-- Programs before this migration ignore it: each of their servers may count a build.
ALTER TABLE workspace_builds ADD COLUMN start_counted boolean NOT NULL DEFAULT false;
