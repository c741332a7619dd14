import type { TemplateBuilderBase, TemplateBuilderModule } from '@ropewalk/contract';
import { useState } from 'react';
import { Avatar } from '../../../ui/avatar.tsx';
import { Button, LinkButton } from '../../../ui/button.tsx';
import { Checkbox } from '../../../ui/checkbox.tsx';
import { Form } from '../../../ui/form.tsx';
import { Markdown } from '../../../ui/markdown.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { Section } from '../../../ui/page.tsx';
import { paths } from '../../../util/paths.ts';
import { useGo, useSearchParams } from '../../../util/route.ts';
import { VariableFields } from '../variable-fields.tsx';
import type { VariableValues } from '../variable-values.ts';
import { type Entered, excludedBy, fieldsOf, isMissing, shownValues } from './choice.ts';

/** Chooses the modules, and enters the values of the base and the modules. */
export function ModuleStep({
  base,
  modules,
  chosen,
  entered,
  onEnter,
  next,
}: {
  base: TemplateBuilderBase;
  modules: readonly TemplateBuilderModule[];
  chosen: readonly TemplateBuilderModule[];
  entered: Entered;
  onEnter: (id: string, values: VariableValues) => void;
  /** The address of the next step. */
  next: string;
}) {
  const go = useGo();
  const [, setSearch] = useSearchParams();
  const [tried, setTried] = useState(false);
  const missing =
    isMissing(base.variables, entered[base.id]) ||
    chosen.some(({ id, variables }) => isMissing(variables, entered[`modules/${id}`]));
  const sensitive = [base, ...chosen].flatMap(({ variables }) => variables.filter((one) => one.sensitive));
  const toggle = (id: string, on: boolean) =>
    setSearch({
      modules: modules.flatMap((one) => ((one.id === id ? on : chosen.includes(one)) ? one.id : [])).join(),
    });
  const categories = [...new Set(modules.map(({ category }) => category))].sort();
  return (
    <Form
      onSubmit={() => {
        setTried(true);
        if (!missing) go(next);
      }}
      actions={
        <>
          <Button type="submit" look="primary">
            Show the source
          </Button>
          <LinkButton to={paths.templateBuilder({ base: base.id })}>Back</LinkButton>
        </>
      }
    >
      <BaseSection base={base} entered={entered[base.id]} onEnter={onEnter} tried={tried} />
      {categories.map((category) => (
        <Section key={category} title={category || 'Other modules'}>
          {modules
            .filter((module) => module.category === category)
            .map((module) => (
              <ModuleFields
                key={module.id}
                module={module}
                on={chosen.includes(module)}
                excluded={excludedBy(module, chosen)}
                onToggle={(on) => toggle(module.id, on)}
                entered={entered[`modules/${module.id}`]}
                onEnter={onEnter}
                tried={tried}
              />
            ))}
        </Section>
      ))}
      {sensitive.length > 0 && (
        <Notice
          title="The next steps ask for sensitive values"
          detail="The source of the template does not contain them."
        />
      )}
      {tried && missing && <Notice tone="warn" title="Fill in the fields that are marked as required." />}
    </Form>
  );
}

function BaseSection({
  base,
  entered,
  onEnter,
  tried,
}: {
  base: TemplateBuilderBase;
  entered: VariableValues | undefined;
  onEnter: (id: string, values: VariableValues) => void;
  tried: boolean;
}) {
  const fields = fieldsOf(base.variables);
  return (
    <Section
      title={
        <span className="flex items-center gap-3">
          <Avatar name={base.name} src={base.icon} size={28} square />
          {base.name}
        </span>
      }
    >
      {base.prerequisites && <Markdown text={base.prerequisites} />}
      {fields.length > 0 && (
        <VariableFields
          variables={fields}
          values={shownValues(base.variables, entered)}
          onChange={(values) => onEnter(base.id, values)}
          showMissing={tried}
        />
      )}
    </Section>
  );
}

function ModuleFields({
  module,
  on,
  excluded,
  onToggle,
  entered,
  onEnter,
  tried,
}: {
  module: TemplateBuilderModule;
  on: boolean;
  excluded: TemplateBuilderModule | undefined;
  onToggle: (on: boolean) => void;
  entered: VariableValues | undefined;
  onEnter: (id: string, values: VariableValues) => void;
  tried: boolean;
}) {
  const { id, display_name, description, icon, variables } = module;
  const fields = fieldsOf(variables);
  return (
    <div className="flex flex-col gap-4">
      <div className="flex items-start justify-between gap-3">
        <Checkbox
          checked={on}
          disabled={!on && excluded !== undefined}
          onChange={onToggle}
          label={<span className="font-medium">{display_name}</span>}
          help={excluded && !on ? `Not together with ${excluded.display_name}.` : description}
        />
        <Avatar name={display_name} src={icon} size={28} square />
      </div>
      {on && fields.length > 0 && (
        <fieldset className="ml-6 flex flex-col gap-4 border-line border-l pl-4">
          <legend className="sr-only">{display_name}</legend>
          <VariableFields
            variables={fields}
            values={shownValues(variables, entered)}
            onChange={(values) => onEnter(`modules/${id}`, values)}
            showMissing={tried}
          />
        </fieldset>
      )}
    </div>
  );
}
