import type { Tool } from '../tool.ts';
import { listApps, portForward } from './apps.ts';
import { workspaceBash } from './bash.ts';
import { editFile, editFiles, readFile, workspaceLs, writeFile } from './files.ts';
import { agentLogs, buildLogs, templateVersionLogs } from './logs.ts';
import { fetchTool, search } from './search.ts';
import { createTask, deleteTask, listTasks, reportTask, sendTaskInput, taskLogs, taskStatus } from './tasks.ts';
import {
  createTemplate,
  createTemplateVersion,
  deleteTemplate,
  getTemplate,
  listTemplates,
  updateActiveVersion,
  uploadTarFile,
  versionParameters,
} from './templates.ts';
import {
  createWorkspace,
  createWorkspaceBuild,
  getAuthenticatedUser,
  getWorkspace,
  listWorkspaces,
} from './workspaces.ts';

/** Every tool. Names, arguments and results are those of upstream's version 2.36. */
export const TOOLS: readonly Tool[] = [
  createTemplate,
  createTemplateVersion,
  createWorkspace,
  createWorkspaceBuild,
  deleteTemplate,
  listTemplates,
  versionParameters,
  getTemplate,
  listWorkspaces,
  getAuthenticatedUser,
  templateVersionLogs,
  getWorkspace,
  agentLogs,
  buildLogs,
  reportTask,
  uploadTarFile,
  updateActiveVersion,
  workspaceBash,
  search,
  fetchTool,
  workspaceLs,
  readFile,
  writeFile,
  editFile,
  editFiles,
  portForward,
  listApps,
  createTask,
  deleteTask,
  listTasks,
  taskStatus,
  sendTaskInput,
  taskLogs,
];
