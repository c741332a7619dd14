import { BadgeCheck } from 'lucide-react';
import { SidebarPage } from '../../layouts/sidebar.tsx';
import { Section } from '../../ui/page.tsx';
import { EmptyState } from '../../ui/states.tsx';

/** `/deployment/licenses` and `/deployment/premium`: nothing needs a license. */
export default function LicensesPage() {
  return (
    <SidebarPage title="Licenses" area="Deployment" narrow>
      <Section>
        <EmptyState icon={BadgeCheck} title="Everything is included">
          Every feature of this server is available to all users. There is nothing to buy, and no license to add.
        </EmptyState>
      </Section>
    </SidebarPage>
  );
}
