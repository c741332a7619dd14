import type { Template, TemplateVersion } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { call } from '../../../api/client.ts';
import { useChange } from '../../../api/query.ts';
import type { TagRow } from '../../../ui/tags.tsx';
import { tagRows, tagsOf } from '../build/tags.ts';
import { useImport } from '../build/use-import.ts';
import { useImportAgain } from '../build/use-import-again.ts';
import { isEnded, variablesQuery } from '../data.ts';
import { uploadFiles } from '../files/upload.ts';
import { missingVariables, type VariableValues, valuesOf, valuesToSend } from '../variable-values.ts';
import { filesOf } from './draft.ts';
import type { DraftFiles } from './use-draft.ts';
import type { Panel } from './use-panel.ts';

const needsVariables = ({ job }: TemplateVersion) => job.error_code === 'REQUIRED_TEMPLATE_VARIABLES';
const succeeded = ({ job }: TemplateVersion) => job.status === 'succeeded';

/** The Terraform variables of the last import that found any, and the values that a person has typed for them. */
function useVariables(version: TemplateVersion) {
  const found = useQuery({ ...variablesQuery(version.id), enabled: succeeded(version) || needsVariables(version) });
  // while an import runs, the variables are those of the import before
  const known = useRef(found.data);
  known.current = found.data ?? known.current;
  const [typed, setTyped] = useState<VariableValues>({});
  const definitions = known.current ?? [];
  const valuesFor = (variables: typeof definitions): VariableValues => ({ ...valuesOf(variables), ...typed });
  const values = valuesFor(definitions);
  return {
    definitions,
    values,
    setValues: setTyped,
    showMissing: needsVariables(version) && missingVariables(definitions, values).length > 0,
    /** The values for a build, also of variables that were found after the last render. */
    toSend: () => valuesToSend(known.current ?? [], valuesFor(known.current ?? [])),
  };
}

/** Once per import of this editor, the panel shows what matters about its end. */
function useTabAtEnd(made: TemplateVersion | undefined, version: TemplateVersion, { setTab }: Panel): void {
  const reported = useRef('');
  const isEnd = made !== undefined && made.id === version.id && isEnded(version);
  const tab = needsVariables(version) ? 'variables' : succeeded(version) ? 'resources' : 'problems';
  useEffect(() => {
    if (!isEnd || reported.current === version.id) return;
    reported.current = version.id;
    setTab(tab);
  }, [isEnd, version.id, tab, setTab]);
}

/** The versions that this editor makes, the import of the newest one, and what a build sends in addition to the files. */
export function useBuilds({
  template,
  start,
  files,
  panel,
  onBuilt,
}: {
  template: Template;
  start: TemplateVersion;
  files: DraftFiles;
  panel: Panel;
  onBuilt: (version: TemplateVersion) => void;
}) {
  const [made, setMade] = useState<TemplateVersion>();
  const [tags, setTags] = useState<readonly TagRow[]>(() => tagRows(start.job.tags));
  const { version: followed, log, problems } = useImport((made ?? start).id, () => panel.setTab('log'));
  const again = useImportAgain((next) => {
    setTags(tagRows(next.job.tags));
    setMade(next);
  });
  const version = followed ?? made ?? start;
  const variables = useVariables(version);
  const build = useChange(
    async () => {
      const built = files.draft;
      const version = await call('POST /organizations/{organization}/templateversions', {
        params: { organization: template.organization_id },
        body: {
          template_id: template.id,
          file_id: await uploadFiles(filesOf(built)),
          provisioner: 'terraform',
          storage_method: 'file',
          tags: tagsOf(tags),
          user_variable_values: variables.toSend(),
        },
      });
      return { version, built };
    },
    {
      refetch: ['GET /templates/{template}/versions'],
      onSuccess({ version: next, built }) {
        files.markBuilt(built);
        setMade(next);
        panel.show('log');
        onBuilt(next);
      },
    },
  );
  useTabAtEnd(made, version, panel);
  const building = build.isPending || !isEnded(version);
  return {
    /** The newest version, as the server has it now. At first it is the one that the editor started from. */
    version,
    succeeded: succeeded(version),
    log,
    problems,
    /** Imports the same files again. */
    again,
    tags,
    setTags,
    variables,
    building,
    build() {
      if (!building) build.mutate();
    },
  };
}

export type Builds = ReturnType<typeof useBuilds>;
