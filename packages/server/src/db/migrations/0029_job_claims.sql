-- The attempt that took a job last. A server whose database connection broke before the answer finds the job by it.
ALTER TABLE provisioner_jobs ADD COLUMN claim uuid;
