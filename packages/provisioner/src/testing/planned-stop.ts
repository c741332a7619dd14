/** A local whose value at a stop only Terraform knows, so that an import plans the stop, too. */
export const PLANNED_STOP: Readonly<Record<string, string>> = {
  'planned.tf': `data "coder_workspace" "planned" {}
locals {
  planned = "\${data.coder_workspace.planned.transition} \${timestamp()}"
}
`,
};
