import { exportConnections, listConnections } from '../../app/audit/connections.ts';
import { exportAudit, listAudit } from '../../app/audit/list.ts';
import { readableRecords } from '../../app/audit/readable.ts';
import { createTestEntry } from '../../app/audit/test-entry.ts';
import { defineHandlers } from '../exchange.ts';
import { sendLines } from '../lines.ts';

/** The records of people's actions and connections. */
export const auditHandlers = defineHandlers({
  'GET /audit': (ctx, { query }) => listAudit(ctx, query),
  'GET /audit/export': async (ctx, { query, http }) => {
    const parts = await exportAudit(ctx, query.q);
    await sendLines(ctx, http.reply, { name: 'audit.jsonl', parts, permission: readableRecords });
  },
  'POST /audit/testgenerate': (ctx, { body }) => createTestEntry(ctx, body),
  'GET /connectionlog': (ctx, { query }) => listConnections(ctx, query),
  'GET /connectionlog/export': async (ctx, { query, http }) => {
    const parts = await exportConnections(ctx, query.q);
    await sendLines(ctx, http.reply, { name: 'connections.jsonl', parts, permission: readableRecords });
  },
});
