import { Type } from 'typebox';
import { stringEnum } from '../schema/kit.ts';
import {
  CreateTaskRequest,
  Task,
  TaskBuildResponse,
  TaskInput,
  TaskLogSnapshot,
  TaskLogsResponse,
  TasksListResponse,
} from '../schema/tasks.ts';
import { Nothing, route } from './kit.ts';
import { unknownKeys } from './unknown-keys.ts';

/** `task` is the id or the name of a task. */
const params = Type.Object({ user: Type.String(), task: Type.String() });

/** The routes of upstream's version 2.29 and later. A task is a workspace whose template declares `coder_ai_task`. */
export const tasksRoutes = {
  'GET /tasks': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Lists tasks, filtered by `owner:`, `organization:` and `status:`.',
    query: Type.Object({ q: Type.Optional(Type.String()) }),
    responses: { 200: TasksListResponse },
  }),
  'POST /tasks/{user}': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Creates a workspace that works on a prompt.',
    params: Type.Object({ user: Type.String() }),
    body: CreateTaskRequest,
    unknownKeys: unknownKeys('work'),
    responses: { 201: Task },
  }),
  'GET /tasks/{user}/{task}': route({ tag: 'Tasks', auth: 'session', params, responses: { 200: Task } }),
  'DELETE /tasks/{user}/{task}': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Deletes a task with its workspace.',
    params,
    responses: { 202: Nothing },
  }),
  'POST /tasks/{user}/{task}/pause': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Stops the workspace of a task.',
    params,
    responses: { 202: TaskBuildResponse },
  }),
  'POST /tasks/{user}/{task}/resume': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Starts the workspace of a task.',
    params,
    responses: { 202: TaskBuildResponse },
  }),
  'PATCH /tasks/{user}/{task}/input': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Changes the prompt of a stopped task. Its next start uses the new one.',
    params,
    body: TaskInput,
    unknownKeys: unknownKeys('work'),
    responses: { 204: Nothing },
  }),
  'POST /tasks/{user}/{task}/send': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Sends a message to the coding agent of a task.',
    params,
    body: TaskInput,
    unknownKeys: unknownKeys('work'),
    responses: { 204: Nothing },
  }),
  'GET /tasks/{user}/{task}/logs': route({
    tag: 'Tasks',
    auth: 'session',
    summary: 'Shows the conversation of a task: from its app, or as it was when the workspace stopped.',
    params,
    responses: { 200: TaskLogsResponse },
  }),
  'POST /workspaceagents/me/tasks/{task}/log-snapshot': route({
    tag: 'Tasks',
    auth: 'agent',
    summary: 'Stores the conversation of a task before its workspace stops.',
    params: Type.Object({ task: Type.String() }),
    query: Type.Object({ format: stringEnum(['agentapi']) }),
    body: TaskLogSnapshot,
    unknownKeys: unknownKeys('report'),
    responses: { 204: Nothing },
  }),
} as const;
