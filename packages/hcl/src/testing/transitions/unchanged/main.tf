terraform {
  required_providers {
    coder = { source = "coder/coder" }
  }
}

data "coder_workspace" "me" {}

resource "coder_agent" "other" {
  os   = "linux"
  arch = "amd64"
  env  = { name = data.coder_workspace.me.name, url = data.coder_workspace.me.access_url }
}

resource "terraform_data" "machine" {
  input = coder_agent.other.token
}
