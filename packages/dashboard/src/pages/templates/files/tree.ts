/** The folders and files of a template, from the paths of its files. */

export interface TreeNode {
  name: string;
  path: string;
  /** Only folders have children. */
  children?: TreeNode[];
}

/** Folders first, then files, by name. */
export function treeOf(paths: Iterable<string>): TreeNode[] {
  const root: TreeNode = { name: '', path: '', children: [] };
  const folder = (parts: readonly string[]): TreeNode => {
    let node = root;
    for (const [at, name] of parts.entries()) {
      let next = node.children!.find((child) => child.name === name && child.children);
      if (!next) {
        next = { name, path: parts.slice(0, at + 1).join('/'), children: [] };
        node.children!.push(next);
      }
      node = next;
    }
    return node;
  };
  for (const path of paths) {
    const parts = path.split('/');
    folder(parts.slice(0, -1)).children!.push({ name: parts.at(-1)!, path });
  }
  const sort = (nodes: TreeNode[]) => {
    nodes.sort(
      (a, b) =>
        Number(Boolean(b.children)) - Number(Boolean(a.children)) ||
        a.name.localeCompare(b.name, undefined, { numeric: true }),
    );
    for (const { children } of nodes) if (children) sort(children);
  };
  sort(root.children!);
  return root.children!;
}

/** The path and all paths below it. */
export const within = (paths: Iterable<string>, folder: string): string[] =>
  [...paths].filter((path) => path === folder || path.startsWith(`${folder}/`));

/** The file that people look at first. */
export function firstFile(paths: readonly string[]): string | undefined {
  return paths.find((path) => path === 'main.tf') ?? paths.find((path) => path.endsWith('.tf')) ?? paths[0];
}

/** Why a path cannot be used, or undefined if it can. `taken` are the paths of the other files. */
export function pathProblem(path: string, taken: Iterable<string>): string | undefined {
  const parts = path.split('/');
  if (path.trim() === '') return 'Enter a name.';
  if (path !== path.trim()) return 'Remove the white space at the start or the end.';
  if (path.includes('\\') || path.includes('\0')) return 'Use "/" between folders.';
  if (path.startsWith('/') || path.endsWith('/') || parts.includes('')) return 'Enter a path like scripts/start.sh.';
  if (parts.some((part) => part === '.' || part === '..')) return '"." and ".." cannot be part of a path.';
  if (path.length > 255) return 'Use at most 255 characters.';
  for (const other of taken) {
    if (other === path) return 'A file with this name exists.';
    if (other.startsWith(`${path}/`)) return 'A folder with this name exists.';
    if (path.startsWith(`${other}/`)) return `"${other}" is a file. It cannot contain files.`;
  }
  return undefined;
}
