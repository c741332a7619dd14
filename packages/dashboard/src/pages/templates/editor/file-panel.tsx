import { Ellipsis, FilePlus2, Pencil, Trash2, Upload } from 'lucide-react';
import { useRef, useState } from 'react';
import { IconButton } from '../../../ui/button.tsx';
import { ConfirmDialog } from '../../../ui/dialog.tsx';
import { Menu, MenuItem } from '../../../ui/menu.tsx';
import { FileTree } from '../files/file-tree.tsx';
import type { TarFile } from '../files/tar.ts';
import { type TreeNode, within } from '../files/tree.ts';
import { PathDialog } from './path-dialog.tsx';

type Asking =
  | { what: 'create'; folder: string }
  | { what: 'rename'; node: TreeNode }
  | { what: 'delete'; node: TreeNode };

/** The tree of files and the actions on them. */
export function FilePanel({
  paths,
  changed,
  selected,
  onSelect,
  onCreate,
  onRename,
  onDelete,
  onUpload,
}: {
  paths: readonly string[];
  changed: ReadonlySet<string>;
  selected: string | undefined;
  onSelect: (path: string) => void;
  onCreate: (path: string) => void;
  onRename: (from: string, to: string) => void;
  onDelete: (path: string) => void;
  onUpload: (files: TarFile[]) => void;
}) {
  const [asking, setAsking] = useState<Asking>();
  const input = useRef<HTMLInputElement>(null);
  const into = useRef('');
  const close = () => setAsking(undefined);
  const take = async (files: readonly File[], folder: string) =>
    onUpload(
      await Promise.all(
        files.map(async (file) => ({
          path: folder ? `${folder}/${file.name}` : file.name,
          data: new Uint8Array(await file.arrayBuffer()),
          mode: file.name.endsWith('.sh') ? 0o755 : 0o644,
        })),
      ),
    );
  const choose = (folder: string) => {
    into.current = folder;
    input.current?.click();
  };
  return (
    <section
      aria-label="Files of the template"
      className="flex min-h-0 w-60 shrink-0 flex-col border-line border-r"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void take([...event.dataTransfer.files], '');
      }}
    >
      <div className="flex h-10 items-center gap-1 border-line border-b pr-1 pl-4">
        <h2 className="flex-1 font-semibold text-sm">Files</h2>
        <IconButton
          icon={FilePlus2}
          size="sm"
          label="New file"
          onClick={() => setAsking({ what: 'create', folder: '' })}
        />
        <IconButton icon={Upload} size="sm" label="Upload files" onClick={() => choose('')} />
        <input
          ref={input}
          type="file"
          multiple
          hidden
          aria-label="Files to upload"
          onChange={({ target }) => {
            void take([...(target.files ?? [])], into.current);
            target.value = '';
          }}
        />
      </div>
      <div className="min-h-0 flex-1 overflow-y-auto p-2">
        <FileTree
          paths={paths}
          selected={selected}
          onSelect={onSelect}
          mark={(path) =>
            changed.has(path) && (
              <span className="mr-1.5 size-2 shrink-0 rounded-full bg-warn">
                <span className="sr-only">changed</span>
              </span>
            )
          }
          actions={(node) => (
            <Menu
              trigger={
                <IconButton
                  icon={Ellipsis}
                  size="sm"
                  label={`Actions of ${node.path}`}
                  className="opacity-0 focus-visible:opacity-100 group-hover:opacity-100 aria-expanded:opacity-100"
                />
              }
            >
              {node.children && (
                <>
                  <MenuItem icon={FilePlus2} onSelect={() => setAsking({ what: 'create', folder: node.path })}>
                    New file
                  </MenuItem>
                  <MenuItem icon={Upload} onSelect={() => choose(node.path)}>
                    Upload files
                  </MenuItem>
                </>
              )}
              <MenuItem icon={Pencil} onSelect={() => setAsking({ what: 'rename', node })}>
                Rename
              </MenuItem>
              <MenuItem icon={Trash2} danger onSelect={() => setAsking({ what: 'delete', node })}>
                Delete
              </MenuItem>
            </Menu>
          )}
        />
      </div>
      {asking?.what === 'create' && (
        <PathDialog
          title="New file"
          action="Create"
          initial={asking.folder && `${asking.folder}/`}
          taken={paths}
          onSave={onCreate}
          onClose={close}
        />
      )}
      {asking?.what === 'rename' && (
        <PathDialog
          title={`Rename ${asking.node.name}`}
          action="Rename"
          initial={asking.node.path}
          taken={paths.filter((path) => !within([path], asking.node.path).length)}
          onSave={(to) => onRename(asking.node.path, to)}
          onClose={close}
        />
      )}
      <ConfirmDialog
        open={asking?.what === 'delete'}
        onClose={close}
        title={asking?.what === 'delete' ? `Delete ${asking.node.name}?` : ''}
        action="Delete"
        danger
        onConfirm={async () => {
          if (asking?.what === 'delete') onDelete(asking.node.path);
        }}
      >
        <p>
          {asking?.what === 'delete' && asking.node.children
            ? `The folder has ${within(paths, asking.node.path).length} files. They stay in older versions.`
            : 'The file stays in older versions.'}
        </p>
      </ConfirmDialog>
    </section>
  );
}
