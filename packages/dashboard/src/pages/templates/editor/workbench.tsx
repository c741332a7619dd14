import type { Template, TemplateVersion } from '@ropewalk/contract';
import { useBlocker } from '@tanstack/react-router';
import { ArrowLeft, FileQuestion, Hammer, Rocket } from 'lucide-react';
import { useMemo, useRef, useState } from 'react';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { ConfirmDialog } from '../../../ui/dialog.tsx';
import { Link } from '../../../ui/link.tsx';
import { EmptyState } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo } from '../../../util/route.ts';
import { ImportStatus } from '../build/import-status.tsx';
import type { Problem } from '../build/problems.ts';
import { nameOf } from '../data.ts';
import { Code } from '../files/code.tsx';
import type { TarFile } from '../files/tar.ts';
import { FilePanel } from './file-panel.tsx';
import { OpenFiles } from './open-files.tsx';
import { ImportPanel } from './panel.tsx';
import { PublishDialog } from './publish-dialog.tsx';
import { type Builds, useBuilds } from './use-builds.ts';
import { type DraftFiles, useDraft } from './use-draft.ts';
import { usePanel } from './use-panel.ts';

/** The editor: files on the left, their text in the middle, and below what the last import says. */
export function Workbench({
  template,
  start,
  files: source,
  onVersion,
}: {
  template: Template;
  start: TemplateVersion;
  files: readonly TarFile[];
  /** Called with the name of each version that this editor makes, before the address shows it. */
  onVersion: (name: string) => void;
}) {
  const files = useDraft(source);
  const panel = usePanel();
  const address = useAddress(template, files.dirty, onVersion);
  const builds = useBuilds({ template, start, files, panel, onBuilt: address.show });
  const [publishing, setPublishing] = useState(false);
  const { version } = builds;
  return (
    <div className="flex h-[calc(100dvh-3.25rem-1px)] min-h-120 flex-col">
      <Header template={template} builds={builds} dirty={files.dirty} onPublish={() => setPublishing(true)} />
      <div className="flex min-h-0 flex-1">
        <FilePanel
          paths={files.paths}
          changed={files.changed}
          selected={files.active}
          onSelect={files.select}
          onCreate={files.create}
          onRename={files.rename}
          onDelete={files.remove}
          onUpload={files.add}
        />
        <div className="flex min-w-0 flex-1 flex-col">
          <OpenFiles
            open={files.open}
            active={files.active}
            changed={files.changed}
            onSelect={files.select}
            onClose={(path) => files.close([path])}
          />
          <div className="min-h-0 flex-1 bg-surface">
            <ActiveFile files={files} problems={builds.problems} onSave={builds.build} />
          </div>
          <ImportPanel
            template={template}
            builds={builds}
            panel={panel}
            onOpen={({ file, line }) => file !== undefined && files.select(file, line)}
          />
        </div>
      </div>
      {publishing && (
        <PublishDialog
          template={template}
          version={version}
          onPublished={(saved) => {
            if (saved.name !== version.name) address.show(saved);
          }}
          onClose={() => setPublishing(false)}
        />
      )}
      <ConfirmDialog
        open={address.leaving}
        onClose={address.stay}
        title="Leave without building?"
        action="Leave"
        danger
        onConfirm={address.leave}
      >
        <p>Your changes are only in this page. They are lost if you leave it before you build.</p>
      </ConfirmDialog>
    </div>
  );
}

/** The address of the newest version. A person who leaves it with changes that are not built is asked first. */
function useAddress(template: Template, dirty: boolean, onVersion: (name: string) => void) {
  const go = useGo();
  const own = useRef('');
  const blocker = useBlocker({
    shouldBlockFn: ({ next }) => dirty && decodeURIComponent(next.pathname) !== decodeURIComponent(own.current),
    enableBeforeUnload: () => dirty,
    withResolver: true,
  });
  return {
    show(next: TemplateVersion) {
      onVersion(next.name);
      own.current = paths.templateEditor(template, next.name);
      go(own.current, { replace: true });
    },
    /** Whether the person is asked now. */
    leaving: blocker.status === 'blocked',
    stay: () => blocker.reset?.(),
    leave: async () => blocker.proceed?.(),
  };
}

function Header({
  template,
  builds,
  dirty,
  onPublish,
}: {
  template: Template;
  builds: Builds;
  dirty: boolean;
  onPublish: () => void;
}) {
  const { version, building } = builds;
  const isActive = version.id === template.active_version_id;
  const mayPublish = builds.succeeded && !dirty && !isActive;
  return (
    <header className="flex h-13 shrink-0 items-center gap-3 border-line border-b bg-surface px-4">
      <Link
        to={paths.templateVersions(template)}
        plain
        aria-label="Back to the template"
        className="flex size-7 items-center justify-center rounded-md text-muted hover:bg-hover hover:text-text"
      >
        <ArrowLeft size={16} aria-hidden="true" />
      </Link>
      <h1 className="truncate font-semibold">{nameOf(template)}</h1>
      <span className="hidden min-w-0 truncate font-mono text-muted text-sm md:inline">{version.name}</span>
      {isActive && !dirty && <Badge tone="good">Active</Badge>}
      <span aria-live="polite">
        {dirty ? <Badge tone="warn">Not built</Badge> : <ImportStatus job={version.job} />}
      </span>
      <div className="flex-1" />
      <Button icon={Hammer} pending={building} look={mayPublish ? 'default' : 'primary'} onClick={builds.build}>
        Build
      </Button>
      <Button
        icon={Rocket}
        look={mayPublish ? 'primary' : 'default'}
        disabled={!mayPublish}
        title={
          mayPublish
            ? undefined
            : dirty
              ? 'Build the changes first.'
              : isActive
                ? 'This version is active.'
                : 'Only a version that is ready can be published.'
        }
        onClick={onPublish}
      >
        Publish
      </Button>
    </header>
  );
}

/** The text of the file that is shown, with the problems of the last import in it. */
function ActiveFile({
  files,
  problems,
  onSave,
}: {
  files: DraftFiles;
  problems: readonly Problem[];
  onSave: () => void;
}) {
  const { active, file } = files;
  const here = useMemo(() => problems.filter((problem) => problem.file === active), [problems, active]);
  if (active === undefined || !file) {
    return (
      <EmptyState icon={FileQuestion} title="No file is open">
        Choose a file on the left.
      </EmptyState>
    );
  }
  if (file.text === undefined) {
    return (
      <EmptyState icon={FileQuestion} title="Not a text file">
        It is part of the template, but cannot be edited here.
      </EmptyState>
    );
  }
  return (
    <Code
      path={active}
      text={file.text}
      problems={here}
      place={files.place}
      onChange={(text) => files.write(active, text)}
      onSave={onSave}
    />
  );
}
