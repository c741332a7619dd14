import { FileArchive, FolderOpen } from 'lucide-react';
import { useId, useState } from 'react';
import { cx } from '../../../ui/classes.ts';
import { sizeOf } from '../files/source-view.tsx';
import { type Archive, packFolder, readArchive } from '../files/upload.ts';

const MAX_SHOWN_LINKS = 5;

function LeftOutLinks({ links }: { links: readonly string[] }) {
  const more = links.length - MAX_SHOWN_LINKS;
  const names = [...links.slice(0, MAX_SHOWN_LINKS), ...(more > 0 ? [`${more} more`] : [])];
  return (
    <p className="break-all text-sm text-warn">
      Links are left out: {new Intl.ListFormat('en').format(names)}. Replace them by copies of the files.
    </p>
  );
}

/** Takes an archive or a folder, chosen or dropped. */
export function UploadField({
  archive,
  onChange,
  error,
}: {
  archive: Archive | undefined;
  onChange: (archive: Archive | undefined) => void;
  error: string | undefined;
}) {
  const id = useId();
  const [over, setOver] = useState(false);
  const [problem, setProblem] = useState('');
  const take = async (read: Promise<Archive>) => {
    setProblem('');
    try {
      onChange(await read);
    } catch (err) {
      onChange(undefined);
      setProblem((err as Error).message);
    }
  };
  const shown = problem || error;
  const look = cx(
    'cursor-pointer rounded-sm font-medium text-accent-text underline-offset-2 hover:underline',
    'has-focus-visible:outline-2 has-focus-visible:outline-focus has-focus-visible:outline-offset-2',
  );
  return (
    <div className="flex flex-col gap-1.5">
      <section
        aria-label="Drop an archive here"
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          const [file] = event.dataTransfer.files;
          if (file) void take(readArchive(file));
        }}
        className={cx(
          'flex flex-col items-center gap-2 rounded-lg border border-dashed px-4 py-8 text-center',
          over ? 'border-accent bg-accent-soft' : shown ? 'border-bad' : 'border-field',
        )}
      >
        {archive ? (
          <>
            <FileArchive size={22} aria-hidden="true" className="text-muted" />
            <div className="wrap-anywhere font-medium">{archive.name}</div>
            <div className="text-muted text-sm">{sizeOf(archive.data.length)}</div>
            {archive.links.length > 0 && <LeftOutLinks links={archive.links} />}
          </>
        ) : (
          <>
            <FolderOpen size={22} aria-hidden="true" className="text-muted" />
            <div>Drop a .tar, .tar.gz or .zip file here</div>
          </>
        )}
        <div className="flex flex-wrap justify-center gap-x-2 text-sm">
          <label className={look}>
            {archive ? 'Choose another file' : 'Choose a file'}
            <input
              type="file"
              accept=".tar,.zip,.gz,.tgz"
              className="sr-only"
              aria-describedby={`${id}-error`}
              onChange={({ target }) => {
                const [file] = target.files ?? [];
                if (file) void take(readArchive(file));
                target.value = '';
              }}
            />
          </label>
          <span className="text-muted">or</span>
          <label className={look}>
            choose a folder
            <input
              type="file"
              className="sr-only"
              aria-describedby={`${id}-error`}
              ref={(input) => input?.setAttribute('webkitdirectory', '')}
              onChange={({ target }) => {
                const files = [...(target.files ?? [])];
                if (files.length > 0) void take(packFolder(files));
                target.value = '';
              }}
            />
          </label>
        </div>
      </section>
      <div id={`${id}-error`} aria-live="polite" className="text-bad text-sm">
        {shown}
      </div>
    </div>
  );
}
