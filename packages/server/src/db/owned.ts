import type { VerifiedDaemon } from '../authz/proofs.ts';

declare const owned: unique symbol;

/**
 * Proof that the writer owns `Row`: a statement found that it belongs to a job that the writer owns by its `Ownership`,
 * or this transaction added it. Only functions in `db/queries` create one. Every write of a job's results takes one.
 */
export type Owned<Row> = Row & { readonly [owned]: true };

/**
 * A verified daemon's claim that it owns a job. A statement that takes it compares all three fields with the job's row.
 */
export type Ownership = VerifiedDaemon<{ jobId: string; workerId: string; epoch: number }>;
