import { getTask, listTasks } from '../../app/task/read.ts';
import { createTask, deleteTask, pauseTask, resumeTask } from '../../app/task/write.ts';
import { defineHandlers } from '../exchange.ts';

export const taskHandlers = defineHandlers({
  'GET /tasks': (ctx, { query }) => listTasks(ctx, query.q),
  'POST /tasks/{user}': (ctx, { params, body }) => createTask(ctx, params.user, body),
  'GET /tasks/{user}/{task}': (ctx, { params }) => getTask(ctx, params.user, params.task),
  'DELETE /tasks/{user}/{task}': (ctx, { params }) => deleteTask(ctx, params.user, params.task),
  'POST /tasks/{user}/{task}/pause': (ctx, { params }) => pauseTask(ctx, params.user, params.task),
  'POST /tasks/{user}/{task}/resume': (ctx, { params }) => resumeTask(ctx, params.user, params.task),
});
