import type { Client } from '@ropewalk/client';
import type { User, Workspace } from '@ropewalk/contract';

const PAGE = 1_000;
/** More requests at the same time would only compete on the server. */
const AT_ONCE = 4;

/** All rows of a list whose pages say how many rows there are. The pages after the first one are fetched in parallel. */
export async function allPages<Row>(
  fetch: (page: { limit: number; offset: number }) => Promise<{ rows: readonly Row[]; count: number }>,
): Promise<Row[]> {
  const first = await fetch({ limit: PAGE, offset: 0 });
  // a server may return fewer rows than it was asked for
  const size = first.rows.length;
  if (size === 0 || size >= first.count) return [...first.rows];
  const offsets = Array.from({ length: Math.ceil(first.count / size) - 1 }, (_, i) => (i + 1) * size);
  const pages = new Map<number, readonly Row[]>();
  const waiting = offsets.values();
  const fetchSome = async () => {
    for (const offset of waiting) pages.set(offset, (await fetch({ limit: size, offset })).rows);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, fetchSome));
  return [first.rows, ...offsets.map((offset) => pages.get(offset)!)].flat();
}

/** All workspaces that match a search. Without resources, a long list takes the server half the time. */
export function searchWorkspaces(
  client: Client,
  q: string,
  { withResources = true }: { withResources?: boolean } = {},
): Promise<Workspace[]> {
  const include = withResources ? {} : { include_resources: false };
  return allPages(async (page) => {
    const { workspaces, count } = await client.call('GET /workspaces', { query: { q, ...include, ...page } });
    return { rows: workspaces, count };
  });
}

export function searchUsers(client: Client, q: string): Promise<User[]> {
  return allPages(async (page) => {
    const { users, count } = await client.call('GET /users', { query: { q, ...page } });
    return { rows: users, count };
  });
}
