import type { AppearanceConfig, BannerConfig } from '@ropewalk/contract';
import { useQuery } from '@tanstack/react-query';
import { Plus, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { fieldError } from '../../api/errors.ts';
import { appearanceQuery } from '../../api/me.ts';
import { useSitePermissions } from '../../api/permissions.ts';
import { useChange } from '../../api/query.ts';
import { IconPicker } from '../../forms/icon-field.tsx';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { Checkbox } from '../../ui/checkbox.tsx';
import { Field, Input, TextArea } from '../../ui/field.tsx';
import { Form } from '../../ui/form.tsx';
import { Section } from '../../ui/page.tsx';
import { SaveButtons } from '../../ui/save.tsx';
import { QueryView, SkeletonLines } from '../../ui/states.tsx';
import { toast } from '../../ui/toast.tsx';

const MAX_BANNERS = 10;
const DEFAULT_COLOR = '#004852';

/** The name, logo and announcements that everybody sees. */
export default function AppearancePage() {
  const appearance = useQuery(appearanceQuery);
  return (
    <SidebarPage title="Appearance" area="Deployment" description="What everybody on this server sees." narrow>
      <QueryView query={appearance} loading={<SkeletonLines lines={8} />}>
        {(data) => <AppearanceForm saved={data} />}
      </QueryView>
    </SidebarPage>
  );
}

function AppearanceForm({ saved }: { saved: AppearanceConfig }) {
  const may = useSitePermissions();
  const [name, setName] = useState(saved.application_name);
  const [logo, setLogo] = useState(saved.logo_url);
  const [banners, setBanners] = useState<readonly BannerConfig[]>(saved.announcement_banners);
  const save = useChange(
    () =>
      call('PUT /appearance', {
        body: { application_name: name.trim(), logo_url: logo.trim(), announcement_banners: [...banners] },
      }),
    {
      ownError: true,
      refetch: ['GET /appearance'],
      onSuccess: () => toast({ title: 'The appearance was changed.' }),
    },
  );
  const change = (at: number, values: Partial<BannerConfig>) =>
    setBanners(banners.map((banner, i) => (i === at ? { ...banner, ...values } : banner)));
  const fields = banners.flatMap((_, at) => [
    `announcement_banners[${at}].message`,
    `announcement_banners[${at}].background_color`,
  ]);
  return (
    <Form
      onSubmit={() => save.mutate()}
      error={save.error}
      fields={['application_name', 'logo_url', ...fields]}
      actions={
        <SaveButtons
          changed={
            may.updateDeploymentConfig === true &&
            (name !== saved.application_name ||
              logo !== saved.logo_url ||
              JSON.stringify(banners) !== JSON.stringify(saved.announcement_banners))
          }
          pending={save.isPending}
          onDiscard={() => {
            setName(saved.application_name);
            setLogo(saved.logo_url);
            setBanners(saved.announcement_banners);
          }}
        />
      }
    >
      <Section title="Name and logo">
        <Field
          label="Application name"
          help="In the navigation. Empty: Ropewalk."
          error={fieldError(save.error, 'application_name')}
        >
          <Input maxLength={64} value={name} onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field
          label="Logo"
          help="An address that starts with https://, or a path such as /icon/coder.svg."
          error={fieldError(save.error, 'logo_url')}
        >
          <div className="flex flex-wrap items-center gap-2">
            {logo && <img src={logo} alt="" className="h-8 max-w-32 rounded-sm object-contain" />}
            <Input className="flex-1 basis-40" value={logo} onChange={(event) => setLogo(event.target.value)} />
            <IconPicker value={logo} onChoose={setLogo} />
          </div>
        </Field>
      </Section>
      <Section
        title="Announcements"
        description="Banners above every page. Markdown works."
        actions={
          <Button
            size="sm"
            icon={Plus}
            disabled={banners.length >= MAX_BANNERS}
            onClick={() => setBanners([...banners, { enabled: true, message: '', background_color: DEFAULT_COLOR }])}
          >
            Add banner
          </Button>
        }
      >
        {banners.length === 0 && <p className="text-muted">No banners.</p>}
        {banners.map((banner, at) => (
          <fieldset key={at} className="flex flex-col gap-3 rounded-md border border-line p-3">
            <legend className="sr-only">Banner {at + 1}</legend>
            <Field
              label={`Message of banner ${at + 1}`}
              error={fieldError(save.error, `announcement_banners[${at}].message`)}
            >
              <TextArea
                rows={2}
                value={banner.message ?? ''}
                onChange={(event) => change(at, { message: event.target.value })}
              />
            </Field>
            <div className="flex flex-wrap items-end gap-4">
              <Field label="Background" error={fieldError(save.error, `announcement_banners[${at}].background_color`)}>
                <Input
                  type="color"
                  className="w-16 p-1"
                  value={banner.background_color || DEFAULT_COLOR}
                  onChange={(event) => change(at, { background_color: event.target.value })}
                />
              </Field>
              <div className="flex-1 pb-1.5">
                <Checkbox label="Shown" checked={banner.enabled} onChange={(enabled) => change(at, { enabled })} />
              </div>
              <IconButton
                icon={Trash2}
                label={`Remove banner ${at + 1}`}
                onClick={() => setBanners(banners.filter((_, i) => i !== at))}
              />
            </div>
          </fieldset>
        ))}
      </Section>
    </Form>
  );
}
