import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Allowed, allow, authorize } from '../../authz/authorize.ts';
import { type ConnectedAgent, systemTask, type VerifiedDaemon, verifiedDaemon } from '../../authz/proofs.ts';
import type { Tx } from '../connect.ts';
import type { Owned } from '../owned.ts';
import type { AgentIdentity, JobRow, WorkspaceRow } from '../rows.ts';
import { insertAgentLogs } from './agent-logs.ts';
import { setAgentStartups } from './agents.ts';
import { buildOfJob, setBuildWarning } from './build-states.ts';
import { type BuildOrder, completeBuild } from './builds.ts';
import { insertJobLogs } from './job-logs.ts';
import { finishAtOnce, finishJob, ownershipOf, sweepLostJobs, type TouchedJob } from './job-ownership.ts';
import { acquireJob, insertJob, type Worker } from './job-queue.ts';
import { cancelJob } from './jobs.ts';
import { insertResource, type NewResource, newResource } from './resources.ts';
import { insertWorkspace, setWorkspaceName } from './workspaces.ts';

const system = { actor: { kind: 'system', name: 'test' } } as const;
const object = { type: 'workspace' } as const;

/** Never called: the compiler checks it. Without proofs, the compiler would accept each line that it must reject. */
async function ofJobs(tx: Tx, job: JobRow, owned: Owned<JobRow>, worker: Worker, resource: NewResource): Promise<void> {
  // @ts-expect-error an unverified daemon
  void acquireJob(tx, { worker, leaseMs: 1 });
  const taken = await acquireJob(tx, { worker: verifiedDaemon(worker), leaseMs: 1 });
  // @ts-expect-error an unverified claim
  void finishJob(tx, { jobId: job.id, workerId: worker.id, epoch: 1 }, {});
  // @ts-expect-error an unverified daemon
  void ownershipOf(worker, job.id, 1);
  const ended = await finishJob(tx, ownershipOf(verifiedDaemon(worker), job.id, 1), {});
  // @ts-expect-error a job without proof that the writer owns it
  void newResource(job);
  const row = newResource(taken!);
  // @ts-expect-error a job without proof that the writer owns it
  void insertResource(tx, job, row, resource);
  void insertResource(tx, taken!, row, resource);
  void insertResource(tx, ended!, row, resource);
  // @ts-expect-error it was touched, and not finished
  void insertResource(tx, owned as Owned<TouchedJob>, row, resource);
  // @ts-expect-error the same
  void insertJobLogs(tx, job, []);
  void insertJobLogs(tx, owned, []);
  void insertJobLogs(tx, { task: systemTask(system), id: job.id }, []);
  const results = { dailyCost: 0, hasAiTask: false, deadline: null, maxDeadline: null };
  // @ts-expect-error a job instead of a build
  void completeBuild(tx, owned, results);
  void completeBuild(tx, buildOfJob(owned), results);
  // @ts-expect-error the build of a job without proof that the writer owns it
  void setBuildWarning(tx, buildOfJob(job), '');
  // @ts-expect-error a system context instead of a system task
  void sweepLostJobs(tx as never, system, new Date());
  // @ts-expect-error a job of another owner
  void finishAtOnce(tx, job);
}

function ofWorkspaces(tx: Tx, workspace: WorkspaceRow, job: Omit<JobRow, 'job_id'> & { job_id: string }): void {
  const updatable = allow(system, 'update', workspace, object);
  void setWorkspaceName(tx, updatable, '');
  // @ts-expect-error a row without authorization
  void setWorkspaceName(tx, workspace, '');
  // @ts-expect-error the permission to read it
  void setWorkspaceName(tx, allow(system, 'read', workspace, object), '');
  const row = { ...workspace, autostart_schedule: null };
  void insertWorkspace(tx, authorize(system, 'create', { type: 'workspace', ownerId: '', organizationId: '' }), row);
  // @ts-expect-error the permission to create something else
  void insertWorkspace(tx, authorize(system, 'create', { type: 'file', ownerId: '', organizationId: '' }), row);
  const start: BuildOrder = { transition: 'start', workspace: allow(system, 'start', workspace, object) };
  // @ts-expect-error the permission to stop does not start
  const wrong: BuildOrder = { transition: 'start', workspace: allow(system, 'stop', workspace, object) };
  void insertJob(tx, start, job);
  void wrong;
  // @ts-expect-error a row without authorization
  void insertJob(tx, { transition: 'start', workspace }, job);
  void cancelJob(tx, allow(system, 'update', job, object));
  // @ts-expect-error an id proves nothing
  void cancelJob(tx, { job_id: job.id });
}

function ofAgents(tx: Tx, agent: AgentIdentity, connected: ConnectedAgent<AgentIdentity>): void {
  const startup = { version: '', expandedDirectory: '', subsystems: [] };
  void setAgentStartups(tx, [{ ...startup, agent: connected }]);
  // @ts-expect-error an agent without a verified token
  void setAgentStartups(tx, [{ ...startup, agent }]);
  const readable: Allowed<'read', AgentIdentity> = allow(system, 'read', agent, object);
  // @ts-expect-error the permission to read does not allow a write
  void insertAgentLogs(tx, readable, '', []);
}

test('a write about jobs, workspaces or agents without its proof does not compile', () => {
  for (const writes of [ofJobs, ofWorkspaces, ofAgents]) assert.equal(typeof writes, 'function');
});

test('ownership names the verified daemon', () => {
  const daemon: VerifiedDaemon<{ id: string }> = verifiedDaemon({ id: 'daemon' });
  assert.deepEqual(ownershipOf(daemon, 'job', 3), { jobId: 'job', workerId: 'daemon', epoch: 3 });
});
