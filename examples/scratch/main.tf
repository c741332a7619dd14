terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
}

# Replace this resource with the machine, container or pod that runs the agent.
resource "terraform_data" "machine" {
  count = data.coder_workspace.me.start_count
  input = coder_agent.main.id
}
