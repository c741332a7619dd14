import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ExternalAgent, instructionsCommand, instructionsText } from './external-agent.ts';

const agent = (agent_name: string): ExternalAgent => ({
  workspace_name: 'dev',
  agent_name,
  auth_type: 'token',
  auth_token: 'secret',
  init_script: `start ${agent_name}`,
});

test('prints one command, or each with the name of its agent', () => {
  assert.equal(
    instructionsText('dev', [agent('main')]),
    'Run this command on the machine that becomes the workspace dev:\n\nstart main',
  );
  assert.equal(
    instructionsText('ann/dev', [agent('main'), agent('gpu')]),
    'Run these commands on the machines that become the workspace ann/dev:\n\nAgent main:\nstart main\n\nAgent gpu:\nstart gpu',
  );
  assert.equal(instructionsText('dev', []), '');
});

test('names the command for the workspace as its caller wrote it', () => {
  assert.equal(instructionsCommand('dev'), 'coder external-workspaces agent-instructions dev');
  assert.equal(instructionsCommand('me/dev'), 'coder external-workspaces agent-instructions dev');
  assert.equal(instructionsCommand('ann/dev'), 'coder external-workspaces agent-instructions ann/dev');
});
