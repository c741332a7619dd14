import { findAgentForToken } from '../../app/find/agent.ts';
import { type OpenPort, sendToTask, storeTaskSnapshot, taskLogs } from '../../app/task/conversation.ts';
import { getTask, listTasks } from '../../app/task/read.ts';
import { changeTaskPrompt, createTask, deleteTask, pauseTask, resumeTask } from '../../app/task/write.ts';
import type { AgentReach } from '../../cluster/agents.ts';
import { requestToken } from '../auth.ts';
import { defineHandlers } from '../exchange.ts';

export function taskHandlers(agents: AgentReach) {
  const open: OpenPort = ({ agent, port }, signal) => agents.open(agent, { service: 'tcp', port }, signal);
  return defineHandlers({
    'GET /tasks': (ctx, { query }) => listTasks(ctx, query.q),
    'POST /tasks/{user}': (ctx, { params, body }) => createTask(ctx, params.user, body),
    'GET /tasks/{user}/{task}': (ctx, { params }) => getTask(ctx, params.user, params.task),
    'DELETE /tasks/{user}/{task}': (ctx, { params }) => deleteTask(ctx, params.user, params.task),
    'POST /tasks/{user}/{task}/pause': (ctx, { params }) => pauseTask(ctx, params.user, params.task),
    'POST /tasks/{user}/{task}/resume': (ctx, { params }) => resumeTask(ctx, params.user, params.task),
    'PATCH /tasks/{user}/{task}/input': (ctx, { params, body }) =>
      changeTaskPrompt(ctx, params.user, params.task, body.input),
    'POST /tasks/{user}/{task}/send': (ctx, { params, body }) =>
      sendToTask(ctx, params.user, params.task, { message: body.input, open }),
    'GET /tasks/{user}/{task}/logs': (ctx, { params }) => taskLogs(ctx, params.user, params.task, open),
    'POST /workspaceagents/me/tasks/{task}/log-snapshot': async (ctx, { params, body, http }) =>
      storeTaskSnapshot(ctx, await findAgentForToken(ctx, requestToken(http.request)?.token), params.task, body),
  });
}
