import { ChevronDown, ChevronRight, File, FileCode2, FileText, Folder } from 'lucide-react';
import { type ReactNode, useMemo, useState } from 'react';
import { cx } from '../../../ui/classes.ts';
import { type TreeNode, treeOf } from './tree.ts';

const iconOf = (path: string) =>
  /\.(tf|hcl|tfvars|sh|json|ya?ml|py)$|Dockerfile/i.test(path)
    ? FileCode2
    : /\.(md|txt)$/i.test(path)
      ? FileText
      : File;

/**
 * The files of a template. `mark` adds something to a file's row, `actions` controls that appear on hover or focus.
 * Arrow keys move, right and left open and close folders.
 */
export function FileTree({
  paths,
  selected,
  onSelect,
  mark,
  actions,
}: {
  paths: readonly string[];
  selected: string | undefined;
  onSelect: (path: string) => void;
  mark?: (path: string) => ReactNode;
  actions?: (node: TreeNode) => ReactNode;
}) {
  const tree = useMemo(() => treeOf(paths), [paths]);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const toggle = (path: string) =>
    setClosed((before) => {
      const next = new Set(before);
      if (!next.delete(path)) next.add(path);
      return next;
    });
  const onKeyDown = (event: React.KeyboardEvent<HTMLUListElement>) => {
    const rows = [...event.currentTarget.querySelectorAll<HTMLButtonElement>('button[data-row]')];
    const at = rows.indexOf(document.activeElement as HTMLButtonElement);
    if (at < 0) return;
    const row = rows[at]!;
    const folder = row.dataset['folder'];
    if (event.key === 'ArrowDown') rows[at + 1]?.focus();
    else if (event.key === 'ArrowUp') rows[at - 1]?.focus();
    else if (event.key === 'ArrowRight' && folder !== undefined && closed.has(folder)) toggle(folder);
    else if (event.key === 'ArrowLeft' && folder !== undefined && !closed.has(folder)) toggle(folder);
    else return;
    event.preventDefault();
  };
  const rows = (nodes: readonly TreeNode[], depth: number): ReactNode =>
    nodes.map((node) => {
      const isFolder = node.children !== undefined;
      const open = isFolder && !closed.has(node.path);
      const Icon = isFolder ? Folder : iconOf(node.path);
      const current = node.path === selected;
      return (
        <li key={node.path}>
          <div className={cx('group flex items-center rounded-md', current ? 'bg-active' : 'hover:bg-hover')}>
            <button
              type="button"
              data-row=""
              {...(isFolder ? { 'data-folder': node.path, 'aria-expanded': open } : {})}
              aria-current={current ? 'true' : undefined}
              title={node.path}
              onClick={() => (isFolder ? toggle(node.path) : onSelect(node.path))}
              className="flex h-7 min-w-0 flex-1 items-center gap-1.5 rounded-md text-left text-sm"
              style={{ paddingLeft: 6 + depth * 14 }}
            >
              <span className="flex w-3.5 shrink-0 justify-center text-muted">
                {isFolder && (open ? <ChevronDown size={13} /> : <ChevronRight size={13} />)}
              </span>
              <Icon size={14} aria-hidden="true" className="shrink-0 text-muted" />
              <span className="min-w-0 flex-1 truncate">{node.name}</span>
              {!isFolder && mark?.(node.path)}
            </button>
            {actions?.(node)}
          </div>
          {open && node.children!.length > 0 && <ul>{rows(node.children!, depth + 1)}</ul>}
        </li>
      );
    });
  return (
    <ul aria-label="Files" onKeyDown={onKeyDown} className="flex flex-col">
      {rows(tree, 0)}
    </ul>
  );
}
