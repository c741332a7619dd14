import type { TemplateBuilderBase, TemplateBuilderModule } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { statusOf } from '../../../api/errors.ts';
import { LinkButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/classes.ts';
import { Link } from '../../../ui/link.tsx';
import { Page, Section } from '../../../ui/page.tsx';
import { ErrorView, SkeletonLines } from '../../../ui/states.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo, useSearchParams } from '../../../util/route.ts';
import { templatesQuery } from '../../workspaces/queries.ts';
import { CreateForm } from '../create/create-form.tsx';
import { freeName, templateName } from '../files/upload.ts';
import { BaseStep } from './base-step.tsx';
import { type Entered, requestOf } from './choice.ts';
import { ModuleStep } from './module-step.tsx';
import { basesQuery, composedQuery, modulesQuery } from './queries.ts';
import { SourceStep } from './source-step.tsx';

const STEPS = ['base', 'modules', 'source', 'create'] as const;
type Step = (typeof STEPS)[number];
const NAMES: Readonly<Record<Step, string>> = {
  base: 'Base',
  modules: 'Modules',
  source: 'Source',
  create: 'Template',
};
const DESCRIPTIONS: Readonly<Record<Exclude<Step, 'create'>, string>> = {
  base: 'A template describes workspaces. Choose where they run, then what is in them.',
  modules: 'Choose what to add to the base. You can change all of it later, in the source of the template.',
  source: 'This is the source of the template. Nothing is stored yet.',
};

/** Composes a template of a base and modules. The address has the step and the choice, and the page what is entered. */
export default function TemplateBuilder() {
  const [search] = useSearchParams();
  const [entered, setEntered] = useState<Entered>({});
  const bases = useQuery(basesQuery);
  const base = bases.data?.bases.find(({ id }) => id === search['base']);
  const modules = useQuery({ ...modulesQuery(base?.id ?? ''), enabled: base !== undefined });
  const failed = [bases, modules].find(({ isError }) => isError);
  if (statusOf(bases.error) === 404) return <Elsewhere />;
  if (failed) return <ErrorView error={failed.error} retry={() => void failed.refetch()} isPage />;
  if (!bases.data || (base && !modules.data)) return <LoadingBuilder />;
  const ids = (search['modules'] ?? '').split(',');
  const chosen = (modules.data?.modules ?? []).filter(({ id }) => ids.includes(id));
  const step = base ? (STEPS.find((each) => each === search['step']) ?? 'base') : 'base';
  const at = (next: Step) =>
    paths.templateBuilder({
      step: next,
      ...(base ? { base: base.id, modules: chosen.map(({ id }) => id).join() } : {}),
    });
  if (base && step === 'create') return <Create base={base} modules={chosen} entered={entered} />;
  return (
    <Page
      title="Template builder"
      description={DESCRIPTIONS[step as keyof typeof DESCRIPTIONS]}
      width={step === 'modules' ? 'narrow' : 'wide'}
      actions={step === 'base' && <LinkButton to={paths.starterTemplates()}>Starter templates</LinkButton>}
    >
      <Progress current={step} at={at} />
      {!base || step === 'base' ? (
        <BaseStep bases={bases.data} chosen={base?.id} />
      ) : step === 'modules' ? (
        <ModuleStep
          base={base}
          modules={modules.data!.modules}
          chosen={chosen}
          entered={entered}
          onEnter={(id, values) => setEntered((before) => ({ ...before, [id]: values }))}
          next={at('source')}
        />
      ) : (
        <SourceStep request={requestOf(base, chosen, entered)} back={at('modules')} next={at('create')} />
      )}
    </Page>
  );
}

/** The steps. Those before the current one are links. */
function Progress({ current, at }: { current: Step; at: (step: Step) => string }) {
  const here = STEPS.indexOf(current);
  return (
    <nav aria-label="Steps">
      <ol className="flex flex-wrap gap-x-3 gap-y-2 sm:gap-x-5">
        {STEPS.map((step, index) => (
          <li
            key={step}
            aria-current={step === current ? 'step' : undefined}
            className={cx('flex items-center gap-1.5 sm:gap-2', index === here ? 'font-medium' : 'text-muted')}
          >
            <span
              aria-hidden="true"
              className={cx(
                'flex size-5 items-center justify-center rounded-full text-xs',
                index <= here ? 'bg-accent text-on-accent' : 'bg-active',
              )}
            >
              {index + 1}
            </span>
            {index < here ? (
              <Link to={at(step)} plain className="hover:underline">
                {NAMES[step]}
              </Link>
            ) : (
              NAMES[step]
            )}
          </li>
        ))}
      </ol>
    </nav>
  );
}

/** The form of the new template, with the composed source. */
function Create({
  base,
  modules,
  entered,
}: {
  base: TemplateBuilderBase;
  modules: readonly TemplateBuilderModule[];
  entered: Entered;
}) {
  const composed = useQuery(composedQuery(requestOf(base, modules, entered)));
  const templates = useQuery(templatesQuery);
  // the names as they were when the form opened: the form makes one more
  const [used, setUsed] = useState<ReadonlySet<string>>();
  if (templates.data && !used) setUsed(new Set(templates.data.map(({ name }) => name)));
  const failed = [composed, templates].find(({ isError }) => isError);
  if (failed) return <ErrorView error={failed.error} retry={() => void failed.refetch()} isPage />;
  if (!composed.data || !used) return <LoadingBuilder />;
  const added = modules.map(({ display_name }) => display_name).join(', ');
  return (
    <CreateForm
      source={{
        title: `New template from ${base.name}`,
        description: added === '' ? 'Without modules.' : `With ${added}.`,
        icon: base.icon,
        composed: composed.data.archive,
        values: {
          name: freeName(templateName(base.id), used),
          display_name: base.name,
          description: base.description.slice(0, 128),
          icon: base.icon,
        },
      }}
    />
  );
}

const LoadingBuilder = () => (
  <Page title="Template builder">
    <Section>
      <SkeletonLines lines={9} />
    </Section>
  </Page>
);

/** Opens the starter templates instead, where the builder is disabled, and for people who may not create templates. */
function Elsewhere() {
  const go = useGo();
  useEffect(() => go(paths.starterTemplates(), { replace: true }), [go]);
  return <LoadingBuilder />;
}
