terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

variable "agent_id" {
  type        = string
  description = "The id of the agent."
}

data "coder_workspace_owner" "me" {}

locals {
  name = data.coder_workspace_owner.me.full_name != "" ? data.coder_workspace_owner.me.full_name : data.coder_workspace_owner.me.name
  values = {
    GIT_AUTHOR_NAME     = local.name
    GIT_AUTHOR_EMAIL    = data.coder_workspace_owner.me.email
    GIT_COMMITTER_NAME  = local.name
    GIT_COMMITTER_EMAIL = data.coder_workspace_owner.me.email
  }
}

resource "coder_env" "git" {
  for_each = local.values
  agent_id = var.agent_id
  name     = each.key
  value    = each.value
}
