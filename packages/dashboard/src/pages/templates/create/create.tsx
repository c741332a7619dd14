import { currentStarterId } from '@ropewalk/rules/starter-ids';
import { useQuery } from '@tanstack/react-query';
import { SearchX } from 'lucide-react';
import { useState } from 'react';
import { apiQuery } from '../../../api/query.ts';
import { LinkButton } from '../../../ui/button.tsx';
import { EmptyState, ErrorView } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useSearchParams } from '../../../util/route.ts';
import { templatesQuery } from '../../workspaces/queries.ts';
import { examplesQuery, nameOf, variablesQuery, versionQuery } from '../data.ts';
import { freeName, templateName } from '../files/upload.ts';
import { CreateForm, Loading } from './create-form.tsx';

/** Creates a template from a starter, another template, or an upload. */
export default function CreateTemplate() {
  const [{ exampleId, fromTemplate }] = useSearchParams();
  return exampleId ? (
    <FromExample key={exampleId} id={currentStarterId(exampleId)} />
  ) : fromTemplate ? (
    <FromTemplate key={fromTemplate} id={fromTemplate} />
  ) : (
    <CreateForm
      source={{
        title: 'New template',
        description: 'Upload a folder or an archive with Terraform files.',
        icon: '',
        values: { name: '', display_name: '', description: '', icon: '' },
      }}
    />
  );
}

function FromExample({ id }: { id: string }) {
  const examples = useQuery(examplesQuery);
  const templates = useQuery(templatesQuery);
  // the names as they were when the form opened: the form makes one more
  const [used, setUsed] = useState<ReadonlySet<string>>();
  if (templates.data && !used) setUsed(new Set(templates.data.map(({ name }) => name)));
  const failed = [examples, templates].find(({ isError }) => isError);
  if (failed) return <ErrorView error={failed.error} retry={() => void failed.refetch()} isPage />;
  if (!examples.data || !used) return <Loading />;
  const example = examples.data.find((each) => each.id === id);
  if (!example) {
    return (
      <EmptyState
        isPage
        icon={SearchX}
        title={`Starter template "${id}" not found`}
        action={<LinkButton to={paths.starterTemplates()}>All starter templates</LinkButton>}
      >
        This server has no starter template with this name.
      </EmptyState>
    );
  }
  const scratch = id === 'scratch';
  return (
    <CreateForm
      source={{
        title: scratch ? 'New template from scratch' : `New template from ${example.name}`,
        description: scratch ? 'Starts with a minimal main.tf, which opens in the editor.' : example.description,
        icon: example.icon,
        exampleId: id,
        values: scratch
          ? { name: '', display_name: '', description: '', icon: '' }
          : {
              name: freeName(templateName(example.id), used),
              display_name: example.name,
              description: example.description,
              icon: example.icon,
            },
      }}
    />
  );
}

function FromTemplate({ id }: { id: string }) {
  const template = useQuery(
    apiQuery('GET /templates/{template}', [{ kind: 'template', id }], { params: { template: id } }),
  );
  const active = template.data?.active_version_id ?? '';
  const version = useQuery({ ...versionQuery(active), enabled: active !== '' });
  const variables = useQuery({ ...variablesQuery(active), enabled: active !== '' });
  const error = template.error ?? version.error ?? variables.error;
  if (error) return <ErrorView error={error} retry={() => void template.refetch()} isPage />;
  if (!template.data || !version.data || !variables.data) return <Loading />;
  const { name, display_name, description, icon } = template.data;
  return (
    <CreateForm
      source={{
        title: `Copy of ${nameOf(template.data)}`,
        description: `Copies the source and the settings of version ${version.data.name}.`,
        icon,
        values: {
          name: `${name.slice(0, 27)}-copy`,
          display_name: display_name && `${display_name.slice(0, 56)} (copy)`,
          description,
          icon,
        },
        copy: { template: template.data, version: version.data, variables: variables.data },
      }}
    />
  );
}
